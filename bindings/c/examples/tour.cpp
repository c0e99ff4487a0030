// The same tasks in C++17.
#include "esker.hpp"

#include <iostream>
#include <sstream>

int main(int argc, char **argv) {
    const std::string dir = argc > 1 ? argv[1] : "data";
    esker::Db db(dir, esker::Settings().set("memory_bytes", "256MiB"));
    const auto users = db.keyspace("users");
    const auto visits = db.keyspace("visits", esker::KeyspaceSettings().set("merge", "append"));

    users.put("ada", "analyst");
    db.write(esker::Batch().put(users, "grace", "admiral").put(users, "gordon", "engineer").sync());
    std::cout << users.get("ada").value_or("nobody") << '\n';

    const auto before = db.snapshot();
    users.erase("ada");
    std::cout << users.contains("ada") << users.get("ada", before).has_value() << '\n';

    auto scan = users.scan("g");
    for (auto [key, value] : scan) std::cout << key << ": " << value << '\n';
    for (bool is_there = scan.last(); is_there; is_there = scan.prev())
        std::cout << scan.entry()->key << '\n';

    db.transact([&](const esker::Transaction &tx) {
        tx.put(users, "linus", "maintainer");
        for (auto [key, value] : tx.scan(users, "l")) std::cout << key << ": " << value << '\n';
    });
    visits.erase("page");
    visits.merge("page", "a");
    visits.merge("page", "b");
    std::cout << *visits.get("page") << '\n';

    // Several keys by one call; a value of any size; a commit in two phases; a repair.
    users.put("ada", "countess");
    const auto roles = users.multi_get({"ada", "bob"});
    std::cout << *roles[0] << ", and bob: " << roles[1].has_value() << '\n';
    std::cout << "before: " << *users.multi_get({"ada"}, &before)[0] << ", of "
              << users.reader("ada", before)->size() << " bytes\n";
    const auto films = db.keyspace("films");
    std::istringstream film(std::string(2999997, '.') + "xyz");
    film.exceptions(std::ios::failbit | std::ios::badbit);
    const auto len = films.put("film", film);
    films.put("short", "");
    std::cout << films.count() << " keys\n";
    auto reader = films.reader("film");
    char end[8];
    reader->seek(len - 3);
    const auto read = reader->read(end, sizeof end);
    std::cout << reader->size() << " bytes, to " << std::string(end, read) << '\n';
    const auto prepared = db.begin();
    prepared.put(users, "order", "kept");
    prepared.prepare("order-7");
    for (const auto &id : db.prepared()) std::cout << id << '\n';
    db.commit_prepared("order-7");
    std::cout << *users.get("order") << '\n';

    try {
        db.keyspace("a\nb");
    } catch (const esker::Error &error) {
        std::cout << (error.status() == ESKER_BAD_KEYSPACE_NAME) << '\n';
    }
    db.close();
    std::cout << (esker::repair(dir).find("\"lost_tables\":[]") != std::string::npos) << '\n';
    // A cursor outlives its database safely.
    try {
        scan.next();
        return 1;
    } catch (const esker::Error &error) {
        std::cout << error.what() << '\n';
    }
}
